// Package outboxsql tests the SQL of package outbox and its migrations against
// real servers, through every driver that the root module knows. Package outbox
// itself may require no driver. It has no code of its own.
package outboxsql
