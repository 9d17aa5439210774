"""The only place that speaks SQL: tables, transactions, and what is asked of them."""
