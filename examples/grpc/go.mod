module github.com/pureverbs/pureverbs/examples/grpc

go 1.25.0

// Delete this line in a copy elsewhere, and run: go get github.com/pureverbs/pureverbs
replace github.com/pureverbs/pureverbs => ../..

require (
	github.com/pureverbs/pureverbs v0.0.0-00010101000000-000000000000
	google.golang.org/grpc v1.84.0
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
