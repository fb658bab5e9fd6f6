package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/internal/inspect"
)

// askRelay asks a running relay what the tables do not say: which destinations
// are down. It uses the relay's metrics, at the address of the configuration.
func (c *command) askRelay(ctx context.Context, a config.Admin, database string) []inspect.Reason {
	if a.Listen == "off" {
		return []inspect.Reason{{Code: "unknown", Text: "whether a destination is down is known to a running relay only, and admin.listen is off"}}
	}
	address := "http://" + a.Listen + a.BasePath + "/metrics"
	families, err := scrape(ctx, address, a.TokenFile)
	if err != nil {
		return []inspect.Reason{{Code: "unknown", Text: fmt.Sprintf("whether a destination is down is known to a running relay only: none answered at %s", address)}}
	}
	var reasons []inspect.Reason
	family, ok := families["outbox_destination_down_seconds"]
	if !ok {
		return nil
	}
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["database"] != database {
			continue
		}
		reasons = append(reasons, inspect.Reason{
			Code: "destination_down",
			Text: fmt.Sprintf("destination %q of broker %q has been down for %s", labels["destination"], labels["broker"],
				time.Duration(m.GetGauge().GetValue()*float64(time.Second)).Round(time.Second)),
		})
	}
	return reasons
}

func scrape(ctx context.Context, address, tokenFile string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	// A client of its own: no proxy of the environment may see the token.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, 64<<20))
}
