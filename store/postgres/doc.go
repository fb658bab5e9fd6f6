// Package postgres is the store for PostgreSQL 14 and later: it reads the
// outbox, settles what was delivered by moving it into the history, keeps the
// relays' leases, rings the doorbell and keeps house. It also serves a
// connection that goes through PgBouncer in transaction mode.
//
// # How it speaks to the server
//
// Each method is one transaction, sent as one pipeline and answered in one round
// trip: BEGIN, one SELECT of set_config(…, true), the statements, COMMIT. A
// pooler may give the next method another server session, so nothing is left in
// a session: no prepared statement with a name, no SET, no advisory lock, no
// LISTEN on a pooled connection. Statements are unnamed and planned at each
// call: the fetch's exclusion list is planned well at its real length only.
// Parameters and results travel in binary; no result depends on the session's
// time zone, date style or search_path.
//
// # What is not here
//
// The store does not retry, sleep or log; that is the relay's. It makes no table
// and changes no table's shape; that is the migrations'.
package postgres
