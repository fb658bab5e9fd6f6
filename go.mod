module github.com/postrider/postrider

go 1.26.0

require github.com/postrider/postrider/outbox v0.1.0

replace github.com/postrider/postrider/outbox => ./outbox
