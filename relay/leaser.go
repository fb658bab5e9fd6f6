package relay

import "context"

// Leaser is implemented by a [Store] whose outbox several relays may serve.
//
// A relay's lease is a row with a counter, its beat. The relay raises it; the
// others take it as dead when it has not changed for the lease time by their
// own monotonic clock. Which lanes a relay owns stands in the lane table, and
// each change of it is one transaction that checks the epochs it rests on.
type Leaser interface {
	// Join writes the relay's lease row. claim is the claim mode that it was
	// configured with; an error wraps [ErrClaimMode] if live relays use another.
	Join(ctx context.Context, m Member) (Fence, error)

	// Renew raises the beat of the caller's row if its epoch is still the one
	// in f, writes into it which destinations the caller cannot reach, and
	// returns all relays with the lanes they own, the caller first. The names of
	// destinations are not empty and hold no line break; there are at most 64.
	// It returns [ErrLeaseLost] if the row is gone or has another epoch.
	Renew(ctx context.Context, f Fence, unreachable []string) ([]Member, error)

	// Evict ends the lease of a relay that is taken as dead: in one transaction
	// it locks the row, checks that epoch and beat are still as in dead, removes
	// the row and frees its lanes. It reports whether it did.
	Evict(ctx context.Context, f Fence, dead Member) (bool, error)

	// Claim takes those of the lanes that nobody owns and returns what it took.
	// It takes nothing and returns [ErrLeaseLost] if the caller's lease is gone.
	Claim(ctx context.Context, f Fence, lanes Lanes) (Lanes, error)

	// Release gives up lanes of the caller. Lanes that it does not own are left
	// alone.
	Release(ctx context.Context, f Fence, lanes Lanes) error

	// Leave releases everything and removes the lease row.
	Leave(ctx context.Context, f Fence) error
}

// Fence names a lease: a write that carries it is refused once the lease is
// another's.
type Fence struct {
	Instance string
	Epoch    int64
}

// Member is a relay as the database knows it.
type Member struct {
	Fence
	Beat          int64
	Host, Version string
	// Claim is the claim mode the relay was started with.
	Claim string
	Lanes Lanes
	// Unreachable are the destinations that the relay could not reach for some
	// time, as it said with its last Renew; a new lease has none. Hashes, since
	// a name may hold a key.
	Unreachable []string
}
