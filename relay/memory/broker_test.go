package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func message(id, key string) relay.Event {
	return relay.Event{Identity: id, DedupID: id, Topic: "t", Key: key}
}

func TestBroker_AFailedEventHoldsItsKeyOnly(t *testing.T) {
	t.Parallel()
	refused := relay.Rejected(errors.New("no"))
	b := memory.NewBroker(memory.ServerConfig{Verdict: func(e relay.Event) error {
		if e.Identity == "1" || e.Identity == "4" {
			return refused
		}
		return nil
	}})
	got := b.Publish(t.Context(), []relay.Event{message("1", "k"), message("2", "k"), message("3", "l"), message("4", ""), message("5", "")})
	want := []error{refused, relay.ErrHeld, nil, refused, nil}
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("result %d: %v, want %v", i, got[i], want[i])
		}
	}
	if len(b.Log()) != 2 || len(b.Violations()) != 0 {
		t.Errorf("accepted %v, violations %v", b.Log(), b.Violations())
	}
}

func TestBroker_DedupForgetsAfterItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker(memory.ServerConfig{Dedup: time.Minute})
		for _, wait := range []time.Duration{0, 0, 2 * time.Minute} {
			time.Sleep(wait)
			if err := b.Publish(t.Context(), []relay.Event{message("1", "k")})[0]; err != nil {
				t.Error(err)
			}
		}
		if len(b.Log()) != 2 || b.Repeated() != 1 {
			t.Errorf("kept %d, repeated %d", len(b.Log()), b.Repeated())
		}
	})
}

func TestBroker_SeesAKeyInTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker(memory.ServerConfig{PerCall: time.Second})
		other := b.Server.Connect()
		go b.Publish(t.Context(), []relay.Event{message("1", "k")})
		go b.Publish(t.Context(), []relay.Event{message("2", "k"), message("3", "l")})
		other.Publish(t.Context(), []relay.Event{message("4", "l")})
		if v := b.Violations(); len(v) != 1 {
			t.Errorf("violations %v", v)
		}
	})
}

func TestBroker_ClosedIsUnavailable(t *testing.T) {
	t.Parallel()
	b := memory.NewBroker(memory.ServerConfig{})
	for range 2 {
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := b.Publish(t.Context(), []relay.Event{message("1", "k")})[0]; !relay.IsUnavailable(err) {
		t.Errorf("result %v", err)
	}
}
