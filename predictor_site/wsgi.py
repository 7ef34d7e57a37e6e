"""What gunicorn serves."""

import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from predictor_site.warm_up import warm_up

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")

if settings.SECRET_KEY_IS_TEMPORARY:
    # Each web process would invent its own key, and sessions would be lost at random.
    raise ImproperlyConfigured(
        "SECRET_KEY is not set: set it (or SECRET_KEY_FILE), or start with script/server, "
        "which makes one for this installation"
    )

application = get_wsgi_application()
warm_up()
