package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// streamServer is the embedded JetStream.
type streamServer struct {
	server *natsserver.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	url    string
}

func startStream(ctx context.Context, dir string) (*streamServer, error) {
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded jetstream: %w", err)
	}
	server.Start()
	s := &streamServer{server: server}
	if !server.ReadyForConnections(10 * time.Second) {
		s.stop()
		return nil, errors.New("embedded jetstream: not ready")
	}
	s.url = server.ClientURL()
	if s.conn, err = nats.Connect(s.url); err == nil {
		if s.js, err = jetstream.New(s.conn); err == nil {
			_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: stream, Subjects: []string{subject}, Duplicates: 100 * time.Millisecond,
			})
		}
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("embedded jetstream: %w", err)
	}
	return s, nil
}

func (s *streamServer) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
