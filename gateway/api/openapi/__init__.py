"""The OpenAPI document of the gateway's API, made from its routes, from the types that read and write its
bodies, and from the shapes that OpenAI and Anthropic publish.
"""
