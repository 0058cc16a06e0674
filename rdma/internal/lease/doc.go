// Package lease has the state of leases that needs no device: the owner's limits ([Ledger]), its state of a lease
// ([Term]), the requests of both sides ([Desk], [Asks]), and the holder's operations ([Use]).
//
// The types have no lock: that of the connection guards them. Times are handed in.
package lease
