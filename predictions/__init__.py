"""What people ask for: query, forecast, advice, charts, exports, pages and API."""
