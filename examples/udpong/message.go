package main

import "encoding/binary"

// Sizes of datagrams.
const (
	control = 16   // of all but data and echo, and the least
	largest = 2024 // what an rsocket can send by IPv6; by IPv4 it is a little more
)

// What a datagram is, its first byte. All but data are sent back.
const (
	login = iota // gives the client its number
	begin        // counts from 0
	data
	echo
	end // brings the count
)

// message is a datagram: what it is, the number of the client, the number of the question, a byte that is not used,
// the count, and anything else.
type message []byte

func (m message) op() byte          { return m[0] }
func (m message) client() byte      { return m[1] }
func (m message) setClient(n byte)  { m[1] = n }
func (m message) question() byte    { return m[2] }
func (m message) count() uint32     { return binary.BigEndian.Uint32(m[4:]) }
func (m message) setCount(n uint32) { binary.BigEndian.PutUint32(m[4:], n) }
