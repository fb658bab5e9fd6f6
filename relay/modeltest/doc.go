// Package modeltest holds random histories of the whole engine, with writers,
// refusals, outages, lost replies, and relays that come, go, stall and die,
// against a small model of what must come of them. It is tests only: model_test.go
// states the rules, world_test.go plays a history in virtual time, check_test.go
// draws it.
package modeltest
