// Package outbox writes events as rows, in the same database transaction as the
// change that they are about. A relay publishes the committed rows.
package outbox
