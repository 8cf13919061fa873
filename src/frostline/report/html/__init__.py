"""The report as one HTML file: works offline, asks no network for anything, on a phone and in print."""

from frostline.report.html.page import to_html as to_html
