package relay

import (
	"context"
	"time"

	"github.com/postrider/postrider/outbox"
)

// Store reads and settles the events of one outbox. Safe for concurrent use; at
// once the relay runs at most one each of Fetch, ReadKeys, HeldKeys, Settle, a
// method of [Leaser], Arm, and one of Promote, Keep and Floors, nearly always two
// of them, and Report whenever it is asked for its status.
//
// A store does not retry, sleep or log. Every time it returns is the
// database's own clock; every time it is given is a distance from that clock's
// now. No method holds a transaction open after it returns.
type Store interface {
	// Open connects, checks that the server, the tables and the rights will do,
	// and says who the server is. An error marked [Misconfigured] is final;
	// any other is an unreachable server, to be tried again. Open may be called
	// again after an error and after a success.
	Open(ctx context.Context) (Server, error)

	// Fetch returns, from one snapshot, per topic the lowest pending due rows
	// that are not in q.Skip, ascending per topic and fair between topics. Rows
	// of a closed key are not among Rows: those that are not held yet come in
	// Closed. Rows with an empty key are never of a closed key. It reads only,
	// but for the doorbell.
	Fetch(ctx context.Context, q FetchQuery) (Fetched, error)

	// ReadKeys reads closed keys, each in the same one snapshot: its held rows
	// in order, up to limit, nothing before the lowest row's retry_at, nothing
	// at all while its lowest row is blocked, and stopping before the lowest
	// due row of the key that is not held. The result is in the order of keys.
	//
	// Rows with an empty key are independent and never closed: for Key{Topic: t}
	// it returns the held rows without a key whose retry_at has come, whatever
	// state the others are in, and Open is true when there is none.
	//
	// The payloads of one call are bounded by 16 MiB together, but at least one
	// row is returned if any may be; what was cut is said by More.
	ReadKeys(ctx context.Context, keys []Key, limit int) ([]KeyRead, error)

	// HeldKeys pages through the closed keys that nobody may be waiting for:
	// those whose lowest held row is neither blocked nor waiting for a later
	// retry_at. It returns up to limit of them in (topic, key) order after
	// the given one, and whether there is more; Key{Topic: t} if a held row
	// without a key is due. A relay calls it after it
	// gained lanes, and slowly all the time.
	HeldKeys(ctx context.Context, after Key, limit int) (keys []Key, more bool, err error)

	// Settle records outcomes. A row is changed only if its id, event id and
	// generation are all as named; others are left alone and counted in Missed,
	// and so are dead letters whose fence is not live.
	// Delivered rows are as durable as the store is configured to make them;
	// marks and dead letters always are. When Settle returns nil, all is
	// committed; on an error, what was done is unknown and everything may be
	// repeated.
	Settle(ctx context.Context, s Settlement) (Settled, error)

	// Promote gives up to limit scheduled rows that fell due their place in the
	// order: a new id and queued_at = now, in (available_at, id) order. It
	// returns how many it promoted.
	Promote(ctx context.Context, limit int) (int, error)

	// Keep does a bounded piece of housekeeping: it removes delivered rows older
	// than the retention, dead letters older than theirs, and lease rows of
	// relays long gone. It never removes anything that is pending.
	Keep(ctx context.Context) (Kept, error)

	// Close releases connections and waits for nothing. Safe to call twice.
	Close() error
}

// RowID is a row's primary key: a bigint in Lo, a uuid in both halves, most
// significant first. It is an identity; the order of rows is the order in
// which a store returns them.
type RowID struct{ Hi, Lo uint64 }

// IntID makes a RowID of an integer key.
func IntID(id int64) RowID { return RowID{Lo: uint64(id)} }

// Int returns the integer key of an IntID.
func (id RowID) Int() int64 { return int64(id.Lo) }

// Ref names one row for settling. Generation and EventID guard against an id
// that came back after a crash, a promotion or a restore.
type Ref struct {
	ID         RowID
	EventID    outbox.ID
	Generation int
	// Created narrows the search in adopted tables partitioned by time, and
	// guards in place of EventID where the table has none.
	Created time.Time
}

// Key is what events are ordered by: topic and key together.
type Key struct{ Topic, Key string }

// Row is an event as it lies in the outbox.
type Row struct {
	Ref
	Key
	// Identity overrides the identity made from EventID, for adopted tables.
	Identity       string
	Type           string
	SchemaVersion  int   // 0 = none
	SubjectVersion int64 // 0 = none
	Payload        []byte
	ContentType    string
	Headers        map[string]string
	Queued         time.Time // age counts from it
	Available      time.Time // zero unless scheduled
	Attempts       int
	LastError      string
}

// Held is the state of a held row. The zero value is not held.
type Held string

const (
	// HeldRetry waits until its retry_at.
	HeldRetry Held = "retry"
	// HeldBlocked waits until an operator acts.
	HeldBlocked Held = "blocked"
	// HeldBehind waits behind an earlier held row of its key.
	HeldBehind Held = "behind"
)

// Server identifies what a store is connected to.
type Server struct {
	// Identity changes when the store comes to another server or another
	// history of the same one: system id and timeline, file identity.
	Identity string
	// Describe is for people: "PostgreSQL 15.18".
	Describe string
	// Schema is the version of our tables, 0 for an adopted table.
	Schema int
	// Lanes is false where all keys share one lane.
	Lanes bool
	// Findings are what an operator should know about this database.
	Findings []Finding
}

// FetchQuery says what a fetch may return.
type FetchQuery struct {
	// Lanes limits rows to these lanes; nil means all of them.
	Lanes *Lanes
	// Skip are the rows in flight here, in ascending order of ID.
	Skip []RowID
	// Topics limits rows to these topics, Without leaves topics out. At most
	// one of them is set.
	Topics, Without []string
	// Rows and Bytes bound the result together; at least one row is returned
	// if there is one, however large.
	Rows  int
	Bytes int64
	// PerTopic bounds the rows of a single topic; 0 means Rows.
	PerTopic int
	// Floors are those that Floorer.Floors returned, with its upTo as High: no
	// pending row of a topic lies below its floor, and none of another topic up
	// to High. nil means to scan all.
	Floors map[string]RowID
	High   RowID
	// Peek asks for rows alone, as cheaply as the store can: they need not be
	// fair between topics, and of the rest of Fetched only Closed, Paused and More
	// count.
	// A store may answer it as any other fetch.
	Peek bool
	// Arm asks for the doorbell to be rung for inserts in the next Arm, if the
	// fetch finds nothing. Disarm takes that back.
	Arm    time.Duration
	Disarm bool
}

// Fetched is the result of a fetch, all from one snapshot.
type Fetched struct {
	Rows []Row
	// Closed are rows of closed keys, to be marked [HeldBehind] once.
	// Only Ref, Key and the sizes are filled.
	Closed []Row
	// More says that a bound cut the result: fetch again at once.
	More bool
	// Due are closed keys whose head's retry_at has come (bounded; the
	// earliest first), of the asked lanes and topics only, so that those of a
	// paused destination do not crowd out the rest; Key{Topic: t} for rows
	// without a key.
	Due []Key
	// Scheduled says that scheduled rows fell due: call Promote.
	Scheduled bool
	// Next is how long until the next retry or scheduled row falls due; 0 means
	// that nothing is waiting.
	Next time.Duration
	// Paused are the topics and destinations that operators paused.
	Paused []Control
	// Server is the server's identity as at Open; if it differs, everything in
	// memory is about another history.
	Server string
	// Now is the database's clock.
	Now time.Time
	// Armed says that the doorbell was armed.
	Armed bool
}

// Control is one thing that an operator paused.
type Control struct {
	Kind, Name, By, Reason string
	Since                  time.Time
}

// KeyRead is what a closed key holds.
type KeyRead struct {
	Key
	// Rows may be sent now, in this order.
	Rows []Row
	// Open says that the key has no held row at all.
	Open bool
	// Blocked says that the head waits for an operator.
	Blocked bool
	// Wait is how long until the head's retry_at; 0 if it is due.
	Wait time.Duration
	// More says that limit, or a row of the key that is not held yet, cut Rows.
	More bool
}

// Settlement is one batch of outcomes.
type Settlement struct {
	// Fence is the caller's lease; dead letters are written only under it. The
	// zero Fence is for stores without leases and for operators' commands.
	Fence Fence
	// Delivered rows leave the outbox for the history.
	Delivered []Ref
	// Marks change the relay's own columns of rows that stay.
	Marks []Mark
	// Dead rows leave the outbox for the dead letters.
	Dead []Death
}

// Mark sets a row's held, retry_at, attempts and last_error. All are values,
// not increments, so that a mark can be repeated.
type Mark struct {
	Ref
	Held     Held          // "" leaves held and retry_at as they are
	After    time.Duration // retry_at = now + After, for HeldRetry
	Attempts int
	// Keep leaves attempts and last_error as they are (for HeldBehind, which
	// changes nothing at all on a row that is held already: a late mark of
	// another relay must not un-block it).
	Keep  bool
	Error string // sanitised and cut by the store's caller to 1,000 bytes of UTF-8
}

// Death moves a row to the dead letters.
type Death struct {
	Ref
	Attempts     int
	Class, Cause string
}

// Settled says what a settlement met.
type Settled struct {
	// Missed counts rows that were not as named: settled by another relay,
	// removed by an operator, or of another server.
	Missed int
	// History is set when delivered rows were removed without being kept,
	// because the history could not be written.
	History error
}

// Kept says what housekeeping did.
type Kept struct {
	Removed int64
	// More says that there is more to do now.
	More bool
}
