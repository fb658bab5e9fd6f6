module github.com/postrider/postrider/cmd/postrider

go 1.26

require (
	github.com/postrider/postrider v0.1.0
	github.com/postrider/postrider/outbox v0.1.0
)

replace (
	github.com/postrider/postrider => ../..
	github.com/postrider/postrider/outbox => ../../outbox
)
