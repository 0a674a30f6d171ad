"""What an application's files say about the models that it uses, and a configuration proposed from that.

Here belong readers of source files and configurations (`python`, `files`), what is known of the sizes of models and
GPUs (`sizing`), and what is made of both (`proposal`). The scanned code is read as text, never imported or run, and no
value of a secret leaves a reader. Only `penstock init` imports it.
"""
