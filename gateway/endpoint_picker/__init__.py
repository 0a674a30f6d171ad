"""The endpoint picker: tells a proxy, by Envoy's external processing, which endpoint a request shall go to."""
