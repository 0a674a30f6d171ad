"""The OpenAPI document of the gateway's API, made from its routes, from the types that decode and encode bodies,
and from the shapes that OpenAI and Anthropic publish.
"""
