// Package admin is a relay's HTTP side: health checks and Prometheus metrics.
//
//	http.ListenAndServe("127.0.0.1:9464", admin.Handler(r, admin.Config{}))
//
//	/healthz    200 while the relay's loops turn; depends on nothing else, so
//	            that an outage of a database or broker does not restart relays
//	/readyz     200 once each database was reached, and from then on: an unready
//	            relay would block the rollout of its own fix
//	/progressz  503 when something is due and nothing was settled for StallAfter:
//	            for alerts, not for restarts
//	/metrics    Prometheus
//
// The health checks say no more than yes or no and a reason without names of
// events. Everything else needs the token, where there is one; without one it is
// served only to requests that were addressed to this machine itself, since a
// page from elsewhere can make a browser send requests to a loopback address.
//
// It is no listener: who serves the handler decides on the address, and config of
// the postrider command refuses others than loopback without a token.
package admin
