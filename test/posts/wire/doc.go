// Package wire compares each work request that the rows of package posts write to the device, field by field, with the
// one that they must write.
package wire
