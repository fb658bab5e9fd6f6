package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/postrider/postrider/admin"
	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

// listen serves health and metrics. The returned function stops it.
//
// Where the address was not chosen, that it is taken is no reason to fail: two
// relays on one machine, started with two flags each, should just work.
func (c *command) listen(cfg *config.Config, r *relay.Relay, log *slog.Logger) (stop func(), err error) {
	a := cfg.Admin
	if a.Listen == "off" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", a.Listen)
	if err != nil {
		hint := "choose another address with admin.listen (or POSTRIDER_ADMIN__LISTEN), or off"
		if a.Listen == config.DefaultListen() {
			log.Warn("no health checks and no metrics: the default address is taken", "address", a.Listen, "hint", hint)
			return func() {}, nil
		}
		return nil, relay.Hint(fmt.Errorf("admin.listen: %w", err), hint)
	}
	server := &http.Server{
		Handler: admin.Handler(r, admin.Config{
			TokenFile:      a.TokenFile,
			BasePath:       a.BasePath,
			StallAfter:     time.Duration(a.StallAfter),
			Aliases:        aliases(cfg.Metrics.Aliases),
			MaxLabelValues: cfg.Metrics.MaxLabelValues,
			Logger:         log,
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health checks and metrics ended", "error", err)
		}
	}()
	log.Info("health checks and metrics", "address", "http://"+listener.Addr().String()+a.BasePath)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close() //nolint:errcheck // whoever still waits gets a broken connection
		}
		<-done
	}, nil
}

func aliases(from map[string]config.Alias) map[string]admin.Alias {
	all := make(map[string]admin.Alias, len(from))
	for name, alias := range from {
		all[name] = admin.Alias{Name: alias.Name, Labels: alias.Labels}
	}
	return all
}
