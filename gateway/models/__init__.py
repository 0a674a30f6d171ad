"""Models as requests see them: tokenizer, output format, fleet, admission queue and price of each."""
