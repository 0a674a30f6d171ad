"""OpenAI's files and batches over HTTP; their content and state are in `gateway/jobs`."""
