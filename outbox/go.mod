module github.com/postrider/postrider/outbox

go 1.24
