package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func TestLease_IsTakenOverOnlyAsSeen(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	ctx := t.Context()
	join := func(name string) relay.Fence {
		f, err := s.Join(ctx, relay.Member{Fence: relay.Fence{Instance: name}, Claim: "lanes"})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := join("a"), join("b")
	if took, err := s.Claim(ctx, a, relay.AllLanes); err != nil || took.Len() != 256 {
		t.Fatalf("claimed %d: %v", took.Len(), err)
	}
	if took, _ := s.Claim(ctx, b, relay.AllLanes); took.Len() != 0 {
		t.Errorf("claimed %d owned lanes", took.Len())
	}
	members, _ := s.Renew(ctx, b, nil)
	if len(members) != 2 || members[0].Instance != "b" || members[1].Lanes.Len() != 256 {
		t.Errorf("members %+v", members)
	}
	_, _ = s.Renew(ctx, a, nil)
	if did, _ := s.Evict(ctx, b, members[1]); did {
		t.Error("evicted a relay that had renewed")
	}
	members, _ = s.Renew(ctx, b, nil)
	if did, err := s.Evict(ctx, b, members[1]); !did || err != nil {
		t.Errorf("not evicted: %v", err)
	}
	if _, err := s.Renew(ctx, a, nil); !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("renewal of a lost lease: %v", err)
	}
	if took, err := s.Claim(ctx, a, relay.AllLanes); !errors.Is(err, relay.ErrLeaseLost) || took.Len() != 0 {
		t.Errorf("claim under a lost lease: %v", err)
	}
	if again := join("a"); again.Epoch <= b.Epoch {
		t.Errorf("epoch %d after %d", again.Epoch, b.Epoch)
	}
	if _, err := s.Join(ctx, relay.Member{Fence: relay.Fence{Instance: "c"}, Claim: "competing"}); !errors.Is(err, relay.ErrClaimMode) {
		t.Errorf("join with another claim: %v", err)
	}
}

func TestListen_RingsOnlyWhileArmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		rings := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Listen(ctx, func() { rings++ }) }()
		synctest.Wait()
		s.Insert(event("t", "k"))
		if rings != 0 {
			t.Error("rang unarmed")
		}
		if fetch(t, s, relay.FetchQuery{Arm: time.Second}).Armed {
			t.Error("armed although there was a row")
		}
		if !fetch(t, s, relay.FetchQuery{Arm: time.Second, Topics: []string{"x"}}).Armed {
			t.Error("not armed")
		}
		s.Insert(event("t", "k"))
		time.Sleep(time.Second)
		s.Insert(event("t", "k"))
		if rings != 1 {
			t.Errorf("rang %d times, want once", rings)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen: %v", err)
		}
	})
}

func TestCompete_PassesOverClaimedRows(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	s.Insert(event("t", "a"), event("t", "b"), event("t", "c"))
	ctx, cancel := context.WithCancel(t.Context())
	n, err := s.Compete(ctx, 2, func(ctx context.Context, rows []relay.Row) relay.Settlement {
		equal(t, "claimed", ids(rows), 1, 2)
		_, _ = s.Compete(ctx, 2, func(_ context.Context, rows []relay.Row) relay.Settlement {
			equal(t, "claimed by another", ids(rows), 3)
			return relay.Settlement{}
		})
		cancel()
		return relay.Settlement{Delivered: []relay.Ref{rows[0].Ref}}
	})
	if n != 2 || err != nil {
		t.Fatalf("claimed %d: %v", n, err)
	}
	equal(t, "left", ids(s.Pending()), 2, 3)
}

func TestKeep_RemovesOnlyWhatIsOlderThanTheRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Retention: time.Hour})
		rows := s.Insert(event("t", "a"), event("t", "b"), event("t", "c"))
		settle(t, s, relay.Settlement{Delivered: []relay.Ref{rows[0].Ref}})
		time.Sleep(50 * time.Minute)
		settle(t, s, relay.Settlement{Delivered: []relay.Ref{rows[1].Ref}})
		time.Sleep(20 * time.Minute)
		if got, err := s.Keep(t.Context()); err != nil || got.Removed != 1 {
			t.Errorf("kept %+v: %v", got, err)
		}
		if len(s.Delivered()) != 1 || len(s.Pending()) != 1 {
			t.Error("removed something else")
		}
	})
}
