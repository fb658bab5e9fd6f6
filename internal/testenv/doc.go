// Package testenv runs real servers for tests: PostgreSQL, PgBouncer and NATS,
// each on a free port of the loopback with a data folder of its own, and a TCP
// proxy ([Proxy]) that breaks connections on purpose. Tests own these processes, so they
// can kill, pause and restart them.
//
// # Shared and private servers
//
// [Postgres] and [NATS] are shared by all tests of a test binary; a test takes
// a database, or names of its own, from them and must not disturb the others.
// [StartPostgres], [StartNATS] and [PgBouncer] are private to one test.
//
// # Nothing stays behind
//
// All servers of a test binary live in one temporary folder. A watchdog, a
// small shell process that reads a pipe held by the test binary, sees the pipe
// close when the binary ends, however it ends (also by SIGKILL), stops every
// server and removes the folder. So no TestMain is needed, and no goroutine
// runs in the test binary for a server.
//
// # Missing servers
//
// A test whose server is not installed is skipped with what to install.
// POSTRIDER_TEST_REQUIRE=all turns each such skip into a failure; CI sets it,
// so that green means tested. POSTRIDER_TEST_POSTGRES and POSTRIDER_TEST_NATS
// name running servers (URLs; a superuser for PostgreSQL) that are used in
// place of the shared ones. "make deps" installs everything.
//
// Servers run as the user who runs the tests, or as "postgres" where that is
// root, since PostgreSQL refuses to run as root.
package testenv
