package relay

import "context"

// Waker is implemented by a [Store] that can tell of new rows before a poll
// would find them. A wake-up is a hint: losing one loses no event.
type Waker interface {
	// Listen calls ring, which does not block, whenever rows may have come,
	// until ctx is done or the connection is lost. Where no wake-up is to be had
	// (no trigger, a pooler in the way) it returns an error that says why.
	Listen(ctx context.Context, ring func()) error
	// Arm asks for the bell to be rung for inserts in the next moment, as
	// FetchQuery.Arm does, without a fetch.
	Arm(ctx context.Context) error
}

// Floorer is implemented by a [Store] whose fetch walks over removed rows while
// an old snapshot is held open.
type Floorer interface {
	// Floors returns an id upTo of which it is proven that every transaction that
	// could have drawn it or a lower one has ended, and for each topic with
	// pending rows an id below which it has none, at most one above upTo. Topics
	// without pending rows up to upTo may be missing. seen is the highest id that
	// the caller has fetched; upTo is not above it. A zero upTo says that nothing
	// is proven yet: a transaction is open, and the caller asks again later.
	Floors(ctx context.Context, seen RowID) (floors map[string]RowID, upTo RowID, err error)
}

// Claimer is implemented by a [Store] that offers competing claims: the
// classical SELECT … FOR UPDATE SKIP LOCKED, publish, mark, commit.
type Claimer interface {
	// Compete claims up to limit due rows, oldest first, hands them to publish
	// while it keeps them claimed, and settles what publish returns, in the
	// claim's own transaction. Rows without an outcome are left as they were.
	// It returns how many it claimed. What publish reports as delivered is
	// settled also when ctx is done meanwhile.
	Compete(ctx context.Context, limit int, publish func(context.Context, []Row) Settlement) (int, error)
}

// Reporter is implemented by a [Store] that can describe its outbox.
type Reporter interface {
	// Report counts with bounded work: no count reads more than a fixed number
	// of rows, and a count that was cut says so.
	Report(ctx context.Context) (Report, error)
}
