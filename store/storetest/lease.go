package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/postrider/postrider/relay"
)

// join makes a relay's lease.
func join(t testing.TB, l relay.Leaser, name string) relay.Fence {
	t.Helper()
	f, err := l.Join(t.Context(), relay.Member{
		Fence: relay.Fence{Instance: name}, Host: "host", Version: "v1", Claim: relay.ClaimLanes,
	})
	if err != nil {
		t.Fatalf("join %s: %v", name, err)
	}
	return f
}

func renew(t testing.TB, l relay.Leaser, f relay.Fence) []relay.Member {
	t.Helper()
	members, err := l.Renew(t.Context(), f, nil)
	if err != nil {
		t.Fatalf("renew %s: %v", f.Instance, err)
	}
	return members
}

func claim(t testing.TB, l relay.Leaser, f relay.Fence, lanes relay.Lanes) relay.Lanes {
	t.Helper()
	took, err := l.Claim(t.Context(), f, lanes)
	if err != nil {
		t.Fatalf("claim of %s: %v", f.Instance, err)
	}
	return took
}

// some are the lanes that a relay claims: all of them. A store with one lane
// takes them as one unit.
func (d *desk) some() relay.Lanes { return relay.AllLanes }

var leaseCases = []testcase{
	{"Renew raises the beat and returns all relays with their lanes, the caller first", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		b, a := join(t, l, "b"), join(t, l, "a")
		took := claim(t, l, b, d.some())
		if took != d.some() {
			t.Errorf("took %v", took)
		}
		one, two := renew(t, l, b), renew(t, l, b)
		if len(two) != 2 || two[0].Fence != b || two[1].Fence != a {
			t.Fatalf("members %+v", two)
		}
		if two[0].Beat != one[0].Beat+1 || two[1].Beat != one[1].Beat {
			t.Errorf("beats %d %d, then %d %d", one[0].Beat, one[1].Beat, two[0].Beat, two[1].Beat)
		}
		if two[0].Lanes != d.some() || two[1].Lanes != (relay.Lanes{}) {
			t.Errorf("lanes %v, %v", two[0].Lanes, two[1].Lanes)
		}
		if two[0].Host != "host" || two[0].Version != "v1" || two[0].Claim != relay.ClaimLanes {
			t.Errorf("member %+v", two[0])
		}
	}},
	{"Renew writes which destinations the caller cannot reach, and a new lease has none", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		said := []string{"0a1b2c3d4e5f", "?ffffffffffff"}
		members, err := l.Renew(t.Context(), a, said)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(members[0].Unreachable, said) || len(members[1].Unreachable) != 0 {
			t.Errorf("members %+v", members)
		}
		if got := renew(t, l, b)[1].Unreachable; !slices.Equal(got, said) {
			t.Errorf("seen by another: %q", got)
		}
		join(t, l, "a")
		if got := renew(t, l, b)[1].Unreachable; len(got) != 0 {
			t.Errorf("after joining again: %q", got)
		}
	}},
	{"Claim takes those of the lanes that nobody owns", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		if !d.Caps.Lanes {
			claim(t, l, a, d.some())
			if took := claim(t, l, b, d.some()); took.Len() != 0 {
				t.Errorf("took %v", took)
			}
			return
		}
		first := relay.Lanes{0xff}
		claim(t, l, a, first)
		if took := claim(t, l, b, relay.Lanes{0xfff, 1}); took != (relay.Lanes{0xf00, 1}) {
			t.Errorf("took %v", took)
		}
		if took := claim(t, l, a, relay.AllLanes); took.Len() != 256-8-5 {
			t.Errorf("took %d", took.Len())
		}
	}},
	{"Release gives up lanes of the caller, others are left alone", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		claim(t, l, a, d.some())
		if err := l.Release(t.Context(), b, d.some()); err != nil {
			t.Error(err)
		}
		if took := claim(t, l, b, d.some()); took.Len() != 0 {
			t.Errorf("released another's: %d", took.Len())
		}
		if err := l.Release(t.Context(), a, d.some()); err != nil {
			t.Error(err)
		}
		if took := claim(t, l, b, d.some()); took != d.some() {
			t.Errorf("took %v", took)
		}
	}},
	{"Evict ends a lease only if epoch and beat are still as seen", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		claim(t, l, b, d.some())
		seen := renew(t, l, a)[1]
		renew(t, l, b)
		if ok, err := l.Evict(t.Context(), a, seen); ok || err != nil {
			t.Errorf("evicted a relay that renewed: %v, %v", ok, err)
		}
		seen = renew(t, l, a)[1]
		other := seen
		other.Epoch++
		if ok, err := l.Evict(t.Context(), a, other); ok || err != nil {
			t.Errorf("evicted another epoch: %v, %v", ok, err)
		}
		if ok, err := l.Evict(t.Context(), a, seen); !ok || err != nil {
			t.Errorf("evict: %v, %v", ok, err)
		}
		if _, err := l.Renew(t.Context(), b, nil); !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("renew of the evicted: %v", err)
		}
		if took := claim(t, l, a, d.some()); took != d.some() {
			t.Errorf("its lanes are not free: took %v", took)
		}
		if ok, err := l.Evict(t.Context(), a, seen); ok || err != nil {
			t.Errorf("evicted twice: %v, %v", ok, err)
		}
	}},
	{"S16 a relay whose lease is gone owns nothing and takes nothing", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		if ok, err := l.Evict(t.Context(), a, renew(t, l, a)[1]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := l.Claim(t.Context(), b, d.some()); !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("claim: %v", err)
		}
		if err := l.Release(t.Context(), b, d.some()); !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("release: %v", err)
		}
		if ok, err := l.Evict(t.Context(), b, renew(t, l, a)[0]); ok || !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("evict: %v, %v", ok, err)
		}
		again := join(t, l, "b")
		if again.Epoch == b.Epoch {
			t.Error("joined again with the old epoch")
		}
		if _, err := l.Renew(t.Context(), b, nil); !errors.Is(err, relay.ErrLeaseLost) {
			t.Errorf("renew with the old epoch: %v", err)
		}
		renew(t, l, again)
	}},
	{"a relay that joins again starts from nothing", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a := join(t, l, "a")
		claim(t, l, a, d.some())
		again := join(t, l, "a")
		members := renew(t, l, again)
		if len(members) != 1 || members[0].Lanes.Len() != 0 || again.Epoch == a.Epoch {
			t.Errorf("%+v after %+v", members, a)
		}
	}},
	{"Leave releases everything and removes the lease row", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a, b := join(t, l, "a"), join(t, l, "b")
		claim(t, l, a, d.some())
		if err := errors.Join(l.Leave(t.Context(), a), l.Leave(t.Context(), a)); err != nil {
			t.Error(err)
		}
		if members := renew(t, l, b); len(members) != 1 {
			t.Errorf("members %+v", members)
		}
		if took := claim(t, l, b, d.some()); took != d.some() {
			t.Errorf("took %v", took)
		}
	}},
	{"Join reports other relays of another claim mode", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		a := join(t, l, "a")
		m := relay.Member{Fence: relay.Fence{Instance: "b"}, Claim: relay.ClaimCompeting}
		if _, err := l.Join(t.Context(), m); !errors.Is(err, relay.ErrClaimMode) {
			t.Errorf("join: %v", err)
		}
		if members := renew(t, l, a); len(members) != 1 {
			t.Errorf("members %+v", members)
		}
		if err := l.Leave(t.Context(), a); err != nil {
			t.Error(err)
		}
		if _, err := l.Join(t.Context(), m); err != nil {
			t.Errorf("join after the other left: %v", err)
		}
	}},
	{"S12 many relays at once: each lane has one owner", func(t *testing.T, d *desk) {
		d.leaser(t)
		var group sync.WaitGroup
		for i := range 4 {
			l := d.Connect(t).(relay.Leaser)
			group.Go(func() { churn(t, l, fmt.Sprint(i), d.some()) })
		}
		group.Wait()
		l := d.leaser(t)
		f := join(t, l, "last")
		for _, m := range renew(t, l, f) {
			if m.Instance == "last" {
				continue
			}
			if ok, err := l.Evict(t.Context(), f, m); !ok || err != nil {
				t.Errorf("evict %+v: %v, %v", m, ok, err)
			}
		}
		if took := claim(t, l, f, d.some()); took != d.some() {
			t.Errorf("lanes without a living owner are not free: took %d", took.Len())
		}
	}},
}

// churn claims, renews, releases, evicts and leaves, and checks in each reply that
// no lane has two owners.
func churn(t *testing.T, l relay.Leaser, name string, lanes relay.Lanes) {
	member := relay.Member{Fence: relay.Fence{Instance: name}, Claim: relay.ClaimLanes}
	f, err := l.Join(t.Context(), member)
	for i := 0; i < 30 && err == nil; i++ {
		var members []relay.Member
		if members, err = l.Renew(t.Context(), f, nil); err != nil {
			break
		}
		var all relay.Lanes
		sum := 0
		for _, m := range members {
			all, sum = all.Union(m.Lanes), sum+m.Lanes.Len()
		}
		if all.Len() != sum {
			t.Errorf("a lane has two owners: %+v", members)
		}
		switch i % 5 {
		case 0, 1:
			_, err = l.Claim(t.Context(), f, lanes)
		case 2:
			err = l.Release(t.Context(), f, lanes)
		case 3:
			if len(members) > 1 {
				_, err = l.Evict(t.Context(), f, members[1])
			}
		case 4:
			if err = l.Leave(t.Context(), f); err == nil {
				f, err = l.Join(t.Context(), member)
			}
		}
		if errors.Is(err, relay.ErrLeaseLost) {
			f, err = l.Join(t.Context(), member)
		}
	}
	if err != nil && !errors.Is(err, relay.ErrLeaseLost) {
		t.Errorf("relay %s: %v", name, err)
	}
}
