package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func join(t *testing.T, s *Store, instance string) relay.Fence {
	t.Helper()
	f, err := s.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: instance}, Host: "h", Version: "v", Claim: "lanes"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLease_OneOwnerAtATime(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	a, b := join(t, s, "a"), join(t, s, "b")
	if b.Epoch <= a.Epoch {
		t.Errorf("epochs %d, %d", a.Epoch, b.Epoch)
	}
	claim := func(f relay.Fence) int {
		t.Helper()
		got, err := s.Claim(t.Context(), f, relay.AllLanes)
		if err != nil {
			t.Fatal(err)
		}
		return got.Len()
	}
	if claim(a) != 256 || claim(b) != 0 {
		t.Fatal("not exactly one owner")
	}
	var half relay.Lanes
	half.Add(3)
	if err := s.Release(t.Context(), a, half); err != nil || claim(b) != 0 {
		t.Error("a part was given up", err)
	}
	members, err := s.Renew(t.Context(), b, nil)
	if err != nil || len(members) != 2 || members[0].Instance != "b" || members[0].Beat != 2 || members[1].Lanes != relay.AllLanes {
		t.Fatalf("%+v, %v", members, err)
	}
	seen := members[1]
	if _, err := s.Renew(t.Context(), a, nil); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Evict(t.Context(), b, seen); done || err != nil {
		t.Errorf("a relay that renewed was evicted: %v, %v", done, err)
	}
	seen.Beat++
	if done, err := s.Evict(t.Context(), b, seen); !done || err != nil {
		t.Errorf("not evicted: %v, %v", done, err)
	}
	for name, call := range map[string]func() error{
		"renew": func() error { _, err := s.Renew(t.Context(), a, nil); return err },
		"claim": func() error { _, err := s.Claim(t.Context(), a, relay.AllLanes); return err },
		"evict": func() error { _, err := s.Evict(t.Context(), a, seen); return err },
	} {
		if err := call(); !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("%s of an evicted relay: %v", name, err)
		}
	}
	if claim(b) != 256 {
		t.Fatal("the lane was not free")
	}
	if err := s.Release(t.Context(), a, relay.AllLanes); !errors.Is(err, relay.ErrLeaseLost) || claim(join(t, s, "c")) != 0 {
		t.Error("released by another", err)
	}
	if again := join(t, s, "a"); again.Epoch <= b.Epoch {
		t.Error("an epoch came back")
	}
	if err := s.Leave(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if claim(join(t, s, "a")) != 256 {
		t.Error("the lane of a relay that left is not free")
	}
}

func TestLease_AnotherClaimModeStandsBy(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, func(c *Config) { c.GoneAfter = 50 * time.Millisecond })
	f := join(t, s, "a")
	m := relay.Member{Fence: relay.Fence{Instance: "b"}, Claim: "competing"}
	if _, err := s.Join(t.Context(), m); !errors.Is(err, relay.ErrClaimMode) {
		t.Fatal(err)
	}
	// It joins once the other has stood still for long enough.
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := s.Join(t.Context(), m)
		if err == nil {
			break
		}
		if !errors.Is(err, relay.ErrClaimMode) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // the other's beat is what is waited for
	}
	if _, err := s.Renew(t.Context(), f, nil); !errors.Is(err, relay.ErrLeaseLost) {
		t.Error(err)
	}
}

func TestCompete_TwoClaimsNeverShareARow(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1", "2", "3", "4")
	var inner []string
	n, err := s.Compete(t.Context(), 2, func(ctx context.Context, rows []relay.Row) relay.Settlement {
		equal(t, "first claim", payloads(rows), []string{"1", "2"})
		// A writer is not held up, and another claim gets the others.
		insert(t, db, "orders", "k", "5")
		if _, err := s.Compete(ctx, 10, func(_ context.Context, rows []relay.Row) relay.Settlement {
			inner = payloads(rows)
			return relay.Settlement{Delivered: refs(rows[:1])}
		}); err != nil {
			t.Error(err)
		}
		return relay.Settlement{
			Delivered: refs(rows[:1]),
			Marks:     []relay.Mark{{Ref: rows[1].Ref, Held: relay.HeldRetry, After: time.Hour, Attempts: 1, Error: "no"}},
		}
	})
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	equal(t, "second claim", inner, []string{"3", "4", "5"})
	// Rows without an outcome are as they were.
	equal(t, "left", payloads(fetch(t, s, relay.FetchQuery{Topics: []string{"orders"}}).Closed), []string{"", ""})
	if n := count(t, db, `SELECT count(*) FROM outbox WHERE held IS NULL AND retry_at IS NULL`); n != 2 {
		t.Errorf("%d rows as they were", n)
	}
	if n := count(t, db, `SELECT count(*) FROM outbox WHERE held = 'retry' AND attempts = 1`); n != 1 {
		t.Errorf("%d rows to retry", n)
	}
}

func TestCompete_WhatWasAcceptedIsSettledAfterCancel(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	ctx, cancel := context.WithCancel(t.Context())
	if n, err := s.Compete(ctx, 1, func(_ context.Context, rows []relay.Row) relay.Settlement {
		cancel()
		return relay.Settlement{Delivered: refs(rows)}
	}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if count(t, db, `SELECT count(*) FROM outbox`) != 0 {
		t.Error("not settled")
	}
}

func TestCompete_AClaimThatRanOutTouchesNothing(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	_, err := s.Compete(t.Context(), 1, func(_ context.Context, rows []relay.Row) relay.Settlement {
		mustExec(t, db, `UPDATE outbox SET retry_at = retry_at + 1`) // another's claim
		return relay.Settlement{Delivered: refs(rows)}
	})
	if err == nil || count(t, db, `SELECT count(*) FROM outbox WHERE held = 'retry'`) != 1 {
		t.Error(err)
	}
}

func TestBell_RingsForAnInsertOfAnotherConnection(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	rung := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func() { rung <- struct{}{} }) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-rung:
		case <-time.After(10 * time.Second):
			t.Fatal("no bell: " + what)
		}
	}
	if !fetch(t, s, relay.FetchQuery{Arm: time.Minute}).Armed {
		t.Fatal("not armed")
	}
	insert(t, db, "orders", "k", "1")
	wait("insert while armed")
	f := fetch(t, s, relay.FetchQuery{})
	settle(t, s, relay.Settlement{Delivered: refs(f.Rows)})
	insert(t, db, "orders", "k", "2")
	if err := s.Arm(ctx); err != nil {
		t.Fatal(err)
	}
	wait("insert between fetch and arm")
	s.Ring()
	wait("ring")
	select {
	case <-rung:
		t.Error("the bell rang twice")
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
