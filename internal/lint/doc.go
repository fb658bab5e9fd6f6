// Package lint holds the project's laws as tests: which package may import
// which, what each file must explain, what may not appear anywhere. They look
// at the source of every module in the repository; "go test ./internal/lint"
// says in one line what breaks a law and where.
package lint
