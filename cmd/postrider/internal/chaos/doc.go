// Package chaos breaks a whole Postrider on purpose and counts what came out:
// the real binary, a PostgreSQL, a PgBouncer and a NATS JetStream of their own,
// several relay processes and writers that never stop. It holds tests only.
//
// # A round
//
// A stage starts the servers and the relays; writers change accounts and write
// events about them in the same transactions; a fault strikes, lasts, and heals;
// the writers stop; the outbox runs empty; the relays stop. Then the checker
// reads the whole stream and compares it with what the database says was
// committed:
//
//   - nothing lost, nothing invented: exactly the committed events are there;
//   - in order: the first deliveries of one topic and key follow the versions of
//     their account, which was locked when each event was written;
//   - no duplicate unless something broke;
//   - no dead letter, and no attempt counted: an outage is not an event's fault.
//
// What was committed is read from a table that the writers fill in the same
// transactions, so that a COMMIT whose answer was lost has an outcome too.
//
// # Lengths
//
// "go test" plays one round for each fault; with POSTRIDER_SOAK=1 also 50 rounds
// of several faults at once (POSTRIDER_CHAOS_ROUNDS), on the versions of
// POSTRIDER_TEST_PG_VERSIONS. A failure prints its seed and the faults with
// their times; POSTRIDER_CHAOS_SEED draws the same faults again. The tests are
// about order and accounting: no bound is a bound on speed.
package chaos
