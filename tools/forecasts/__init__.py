"""Compares methods of forecasting on recorded rates: those of replicas/controller/forecast/, and statsforecast's."""
