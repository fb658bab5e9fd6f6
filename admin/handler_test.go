package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/admin"
	"github.com/postrider/postrider/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ admin.Relay = (*relay.Relay)(nil)

// fake is a relay that says what a test wants.
type fake struct {
	mu     sync.Mutex
	status relay.Status
	alive  error
	asked  int
}

func (f *fake) Status(context.Context) relay.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.status
}

func (f *fake) Alive(context.Context) error { return f.alive }

func (f *fake) set(d relay.DatabaseStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Databases = []relay.DatabaseStatus{d}
}

// ask sends one request. Its Host is localhost unless a header says otherwise.
func ask(h http.Handler, path string, headers ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(text)
}

func wants(t *testing.T, h http.Handler, path string, code int) {
	t.Helper()
	if got, text := ask(h, path); got != code {
		t.Errorf("%s: %d %s, want %d", path, got, text, code)
	}
}

func TestHealthz_DependsOnTheLoopsAlone(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(relay.DatabaseStatus{Name: "a", Error: "unreachable"})
	h := admin.Handler(f, admin.Config{})
	wants(t, h, "/healthz", 200)
	if f.asked != 0 {
		t.Error("healthz asked the databases")
	}
	f.alive = errors.New("the loop hangs")
	wants(t, h, "/healthz", 503)
}

func TestReadyz_StaysThroughOutages(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(relay.DatabaseStatus{Name: "a", Error: "unreachable"})
	h := admin.Handler(f, admin.Config{})
	wants(t, h, "/readyz", 503)
	f.set(relay.DatabaseStatus{Name: "a", Server: "PostgreSQL 15"}) // a standby fetches nothing
	wants(t, h, "/readyz", 200)
	f.set(relay.DatabaseStatus{Name: "a", Error: "unreachable"})
	wants(t, h, "/readyz", 200)
}

func TestProgressz(t *testing.T) {
	t.Parallel()
	report := func(pending, held int64, oldest float64) *relay.Report {
		return &relay.Report{PendingEvents: pending, HeldEvents: held, OldestPendingSeconds: oldest}
	}
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		status relay.DatabaseStatus
		code   int
	}{
		"nothing due":            {relay.DatabaseStatus{Report: report(0, 0, 0), LastSettle: long}, 200},
		"due and nothing sent":   {relay.DatabaseStatus{Report: report(5, 1, 100), LastSettle: long}, 503},
		"due for a moment":       {relay.DatabaseStatus{Report: report(5, 1, 0), LastSettle: long}, 200},
		"due and settling":       {relay.DatabaseStatus{Report: report(5, 1, 100), LastSettle: time.Now().Add(time.Hour)}, 200},
		"held only":              {relay.DatabaseStatus{Report: report(5, 5, 100), LastSettle: long}, 200},
		"another relay reports":  {relay.DatabaseStatus{LastSettle: long}, 200},
		"database unreachable":   {relay.DatabaseStatus{Error: "unreachable"}, 503},
		"never settled anything": {relay.DatabaseStatus{Report: report(1, 0, 100)}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			f.set(c.status)
			h := admin.Handler(f, admin.Config{StallAfter: time.Nanosecond})
			if strings.Contains(name, "moment") {
				h = admin.Handler(f, admin.Config{StallAfter: time.Minute})
			}
			wants(t, h, "/progressz", c.code)
		})
	}
}

// slow is a relay whose databases take a second to answer.
type slow struct{ fake }

func (s *slow) Status(ctx context.Context) relay.Status {
	time.Sleep(time.Second)
	return s.fake.Status(ctx)
}

func TestProgressz_ManyAtOnceAskTheDatabasesTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		s.set(relay.DatabaseStatus{Name: "a"})
		h := admin.Handler(s, admin.Config{})
		go wants(t, h, "/progressz", 200)
		time.Sleep(time.Millisecond)
		for range 50 {
			go wants(t, h, "/progressz", 200)
		}
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked != 2 {
			t.Errorf("the databases were asked %d times", s.asked)
		}
	})
}

func TestMetrics_WithoutATokenForThisMachineOnly(t *testing.T) {
	t.Parallel()
	h := admin.Handler(&fake{}, admin.Config{})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9464": 200, "127.0.0.1:9464": 200, "[::1]:9464": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "10.0.0.1:9464": 403,
	} {
		if code, _ := ask(h, "/metrics", "Host", host); code != want {
			t.Errorf("Host %s: %d, want %d", host, code, want)
		}
	}
	wants(t, h, "/", 404)
}

func TestMetrics_Token(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	h := admin.Handler(&fake{}, admin.Config{TokenFile: file, BasePath: "/postrider"})
	if code, _ := ask(h, "/postrider/metrics", "Authorization", "Bearer "); code != 500 {
		t.Errorf("without a readable file: %d", code)
	}
	for _, token := range []string{"first", "second"} { // rotated without a restart
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _ := ask(h, "/postrider/metrics", "Authorization", "Bearer "+token, "Host", "relay.example"); code != 200 {
			t.Errorf("right token: %d", code)
		}
		for _, wrong := range []string{"Bearer wrong", "Bearer", "", "Bearer " + token + "x"} {
			if code, _ := ask(h, "/postrider/metrics", "Authorization", wrong); code != 401 {
				t.Errorf("token %q: %d", wrong, code)
			}
		}
	}
	if code, _ := ask(h, "/postrider/healthz"); code != 200 {
		t.Errorf("healthz wants a token: %d", code)
	}
	wants(t, h, "/metrics", 404)
}
