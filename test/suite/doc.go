// Package suite runs rdma-core's own Python tests, as Debian's releases have them, on an emulated adapter.
//
//	make test-suite
//
// testdata/known lists the tests that do not pass, each with the reason.
package suite
