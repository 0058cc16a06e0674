// Package wire compares what the rows of package posts write to the device with
// what they have to: each work request, field by field.
package wire
