package testutil

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// AsksDNS reports whether package net asks a server for names, as far as nsswitch.conf(5) says. The VM and the roots
// with other releases' libraries have files only.
func AsksDNS() bool {
	conf, _ := os.ReadFile("/etc/nsswitch.conf")
	for line := range strings.Lines(string(conf)) {
		if sources, found := strings.CutPrefix(strings.TrimSpace(line), "hosts:"); found {
			return slices.Contains(strings.Fields(sources), "dns")
		}
	}
	return true
}

// Names has package net resolve these names, until the end of the test, to addresses in this order as far as their
// families and scopes permit (RFC 6724). It resolves no other name.
func Names(t testing.TB, names map[string][]netip.Addr) {
	t.Helper()
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe() // package net speaks DNS over TCP with what is no net.PacketConn
		go serveNames(server, names)
		return client, nil
	}}
	t.Cleanup(func() { net.DefaultResolver = old })
}

// serveNames replies to the queries of a connection.
func serveNames(c net.Conn, names map[string][]netip.Addr) {
	defer c.Close()
	for {
		length := make([]byte, 2)
		if _, err := io.ReadFull(c, length); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := nameReply(query, names)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// nameReply replies to a query, which has one question.
func nameReply(query []byte, names map[string][]netip.Addr) []byte {
	const header, typeA, typeAAAA = 12, 1, 28
	var labels []string
	at := header
	for query[at] != 0 {
		labels = append(labels, string(query[at+1:at+1+int(query[at])]))
		at += 1 + int(query[at])
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	question := query[header : at+5]
	list, known := names[strings.Join(labels, ".")]
	var answers []byte
	n := uint16(0)
	for _, a := range list {
		if a.Is4() != (kind == typeA) || kind != typeA && kind != typeAAAA {
			continue
		}
		n++
		answers = append(answers, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(a.BitLen()/8)) // for 0 s
		answers = append(answers, a.AsSlice()...)
	}
	reply := append([]byte{query[0], query[1], 0x85, 0x80, 0, 1}, byte(n>>8), byte(n), 0, 0, 0, 0)
	if !known {
		reply[3] |= 3 // no such name
	}
	return append(append(reply, question...), answers...)
}
