package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/relay"
)

// Relay is what the handler asks. *relay.Relay is one.
type Relay interface {
	// Status describes the relay and its outboxes.
	Status(ctx context.Context) relay.Status
	// Alive returns an error if a loop of the relay does not turn.
	Alive(ctx context.Context) error
}

// Config configures the handler. The zero value works on a loopback address.
type Config struct {
	// TokenFile holds the token that requests to /metrics must carry as
	// "Authorization: Bearer TOKEN". It is read anew for each request, so that
	// it can be rotated. Default: none, and only requests to this machine's own
	// names are served.
	TokenFile string
	// BasePath is put before all paths, such as "/postrider". Default none.
	BasePath string
	// StallAfter: see /progressz. Default 60s.
	StallAfter time.Duration
	// Aliases serve metrics under further names, by their name.
	Aliases map[string]Alias
	// MaxLabelValues bounds the topics that have numbers of their own; the others
	// are counted together under the topic "other". Default 1000.
	MaxLabelValues int
	// Logger receives what goes wrong while serving. Default: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.StallAfter == 0 {
		c.StallAfter = time.Minute
	}
	if c.MaxLabelValues == 0 {
		c.MaxLabelValues = 1000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler returns the handler for a relay. It is safe for concurrent use and
// starts nothing in the background.
func Handler(r Relay, cfg Config) http.Handler {
	cfg = cfg.withDefaults()
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(r, cfg),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 2, // each asks the databases
		Timeout:             statusTimeout + 5*time.Second,
	})
	h := newHealth(r, cfg.StallAfter)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+cfg.BasePath+"/healthz", h.healthz)
	mux.HandleFunc("GET "+cfg.BasePath+"/readyz", h.readyz)
	mux.HandleFunc("GET "+cfg.BasePath+"/progressz", h.progressz)
	mux.Handle("GET "+cfg.BasePath+"/metrics", protect(cfg, metrics))
	return secure(mux)
}

// secure sets the headers that keep a browser from guessing and from keeping.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// protect lets a request through that carries the token or, where there is
// none, that is addressed to this machine itself.
func protect(cfg Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cfg.TokenFile == "" {
			if !isLocal(r.Host) {
				http.Error(w, "without a token file this address answers to localhost only", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		text, err := os.ReadFile(cfg.TokenFile)
		want := strings.TrimSpace(string(text))
		if err != nil || want == "" {
			cfg.Logger.Error("token file unreadable or empty: request refused", "file", cfg.TokenFile)
			http.Error(w, "the server cannot read its token", http.StatusInternalServerError)
			return
		}
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		// Hashes, so that the comparison's time tells not even the length.
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
		if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "token missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request's Host names this machine.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
