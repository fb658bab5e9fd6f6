package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are drawn below the range that systems hand out for outgoing
// connections (32768 and up on Linux): a killed server must find its port free
// when it starts again, whatever else connected somewhere meanwhile.
const (
	lowestPort  = 15000
	highestPort = 30000
)

// freePort returns a port of the loopback on which nobody listens.
func freePort() (int, error) {
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", lowestPort, highestPort)
}

// freePorts returns n different free ports.
func freePorts(n int) ([]int, error) {
	var ports []int
	for len(ports) < n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
