"""Other systems' laws of scaling, to compare with. Each module says what was taken from where."""
