"""`penstock replay`: record a corpus of requests, ask it of a version, compare what two versions answered."""
