// The tools that the checks use, in a module of their own: the library's go
// directive and requirements stay as low as they can.
module github.com/pureverbs/pureverbs/tools

go 1.26.0

tool (
	github.com/golangci/misspell/cmd/misspell
	github.com/gordonklaus/ineffassign
	honnef.co/go/tools/cmd/staticcheck
)

require golang.org/x/tools v0.51.0

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/golangci/misspell v0.8.0 // indirect
	github.com/gordonklaus/ineffassign v0.2.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)
