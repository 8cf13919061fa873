"""``apps.asgi`` behind the middleware, for any server that is given a module and a name."""

from frostline.integrations.asgi import Middleware
from tests.integrations.apps import asgi

app = Middleware(asgi)
