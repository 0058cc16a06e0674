// Lend shows memory that one side lends and the other side reads and writes. Both sides are in one process here.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	ctx := context.Background()
	l, err := rdma.Listen(ctx, "10.88.0.1:7473", leases)
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- borrower(ctx, l.Addr().String()) }()
	c, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = errors.Join(owner(ctx, c), c.Close(), <-done, l.Close(), rdma.CloseIdle())
	if err != nil {
		log.Fatal(err)
	}
}

// doc: lend-options
// leases allows leases on a connection. Both ends need it.
var leases = &rdma.Options{Leases: &rdma.LeaseOptions{}}

// end

// doc: lend-owner
// owner lends 1 MiB for a minute and prints what the borrower left in it.
func owner(ctx context.Context, c *rdma.Conn) error {
	b, err := c.Engine().Pool().GetWait(ctx, 1<<20)
	if err != nil {
		return err
	}
	copy(b.Bytes()[4096:], "read me")
	lease, err := c.Lend(ctx, b, rdma.MayRead|rdma.MayWrite|rdma.MayAtomic, time.Minute)
	if err != nil {
		b.Release()
		return err
	}
	b, err = lease.Wait(ctx) // until the borrower returns it: from now on it has no access
	if err != nil {
		return err
	}
	defer b.Release()
	fmt.Printf("owner: %q, counter %d\n", b.Bytes()[8192:8200], binary.NativeEndian.Uint64(b.Bytes()))
	return nil
}

// end

func borrower(ctx context.Context, addr string) (err error) {
	c, err := rdma.Dial(ctx, addr, leases)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := use(ctx, c); err != nil {
		return err
	}
	_, err = c.Recv(ctx) // the owner closes
	if err == io.EOF {
		err = nil
	}
	return err
}

// doc: lend-borrower
// use reads, writes and counts in the owner's memory. The owner's processor has no part in it.
func use(ctx context.Context, c *rdma.Conn) error {
	region, err := c.Borrow(ctx)
	if err != nil {
		return err
	}
	b, err := c.Engine().Pool().GetWait(ctx, 8)
	if err != nil {
		return err
	}
	defer b.Release()
	if err := region.Read(ctx, b, 4096); err != nil {
		return err
	}
	fmt.Printf("borrower: %q, of %d bytes with the rights %v\n", b.Bytes()[:7], region.Len(), region.Access())
	copy(b.Bytes(), "written!")
	if err := region.Write(ctx, b, 8192); err != nil { // nil: it is in the owner's memory
		return err
	}
	if _, err := region.FetchAdd(ctx, 0, 5); err != nil {
		return err
	}
	return region.Return(ctx)
}

// end

// Output:
// borrower: "read me", of 1048576 bytes with the rights MayRead|MayWrite|MayAtomic
// owner: "written!", counter 5
