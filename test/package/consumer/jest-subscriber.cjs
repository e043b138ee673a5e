// A subscriber's module in CommonJS.
const calendar = new Map();

const on = {
  "booking.Confirmed": ({ booking, stay }) => void calendar.set(booking.bookingCode, stay),
  "booking.Cancelled": ({ booking }) => void calendar.delete(booking.bookingCode),
};

module.exports = { calendar, on };
