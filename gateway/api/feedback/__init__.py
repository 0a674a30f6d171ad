"""The endpoint of clients' feedback: ratings of answers, and whether they were used or made again."""
