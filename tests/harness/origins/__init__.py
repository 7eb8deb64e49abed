"""The demo's crash loop, as if its clients were pods: what an agent says whose pods are written by a scene."""
