"""The OpenAPI document of the gateway's API, made from its routes and from the types that read and write its bodies."""
