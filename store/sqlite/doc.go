// Package sqlite is the store for an outbox in a SQLite file.
//
// # What SQLite gives and what it does not
//
// A file has one writer at a time. That settles two questions that other
// databases leave open: ids are drawn under the write lock, so the order of ids
// is the order of commits; and more lanes than one would gain nothing, so one
// relay serves the file and others stand by.
//
// It makes another one hard: whoever holds the write lock stops every writer of
// the application. So each write of this package is one short transaction,
// begun with BEGIN IMMEDIATE, never open while a broker is spoken to. IMMEDIATE
// matters: a transaction that reads first and writes later fails at once with
// SQLITE_BUSY_SNAPSHOT if anyone committed in between, whatever busy_timeout
// says.
//
// # Connections
//
//	write   one connection; a queue in this process costs nothing, a queue at
//	        the file's lock is polled and unfair
//	read    four, query_only: fetch, report and the bell. In WAL mode
//	        readers and the writer never wait for each other
//
// Every PRAGMA stands in the data source name, because a pool opens connections
// when it likes and a PRAGMA that was set once is lost with its connection.
//
// # What is not here
//
// No notification reaches a process from another one's commit. The bell looks
// at the table's sequence every few milliseconds while the relay sleeps, and
// [Store.Ring] is for an application that embeds the relay.
package sqlite
