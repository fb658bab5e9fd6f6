package nats_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider/broker/nats"
)

func TestParse(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for _, name := range nats.Options() {
		switch {
		case name == "create_stream":
			all[name] = "true"
		case name == "max_pending" || name == "replicas":
			all[name] = "3"
		case strings.HasSuffix(name, "_timeout") || strings.HasSuffix(name, "_interval") || name == "retry_horizon" ||
			name == "duplicate_window" || name == "max_age":
			all[name] = "3s"
		default:
			all[name] = "x"
		}
	}
	c, err := nats.Parse("nats://host", all)
	if err != nil {
		t.Fatal(err)
	}
	// Every field can be set by an option, but for those that the configuration
	// has elsewhere.
	for _, v := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(c.Stream)} {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() && name != "URLFile" && name != "TLS" {
				t.Errorf("field %s has no option", name)
			}
		}
	}
	_, err = nats.Parse("nats://host?max_pending=x&nope=1", map[string]string{"create_stream": "perhaps"})
	for _, name := range []string{"max_pending", "nope", "create_stream"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []nats.Config{
		{},
		{URL: "host:4222"},
		{URL: "http://host"},
		{URL: "nats://u:" + secret + "@"},
		{URL: "nats://u:" + secret + "%zz@host"},
		{URL: "nats://u:" + secret + "@host:port"},
		{URL: "nats://host/path"},
		{URL: "nats://host", URLFile: "x"},
		{URL: "nats://host", CredsFile: "x", TokenFile: "y"},
		{URL: "nats://host", TLS: nats.TLS{CertFile: "x"}},
		{URL: "nats://host", MaxPending: -1},
		{URL: "nats://host", InboxPrefix: "a.*"},
		{URL: "nats://host", Stream: nats.Stream{Name: "a.b"}},
	} {
		_, err := nats.New(c)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v, want an error without the password", c, err)
		}
	}
	for _, url := range []string{"nats://host", "tls://host:4222", "nats://u:p@a,b:4222,[::1]:4223", "nats://token@host"} {
		if _, err := nats.New(nats.Config{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
