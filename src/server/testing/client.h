// A blocking HTTP client over a plain socket, able to misbehave as tests need. Every wait ends
// after ten seconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::server::testing {

struct Answer {
  int status = 0;                              // 0: the connection ended before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined

  // The payloads of server-sent events, "[DONE]" included; comments left out.
  std::vector<std::string> events() const;
};

class Client {
 public:
  explicit Client(std::uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False when the server no longer takes it.
  bool send(std::string_view bytes);
  void close_sending();
  void close();  // at once, unread data lost
  void set_receive_buffer(int bytes);

  Answer read_answer(bool head_only = false);
  // Reads until `needle` has come; what was read.
  std::string read_until(std::string_view needle);
  // Whether more arrives.
  bool readable_within(int milliseconds);
  // Whether the server closes within `milliseconds`.
  bool closed_within(int milliseconds);

  Answer get(std::string_view target, std::string_view headers = {});
  Answer post(std::string_view target, std::string_view body, std::string_view headers = {});

 private:
  bool fill();  // more bytes; false at the end
  std::string take_line();
  std::string take(std::size_t bytes);
  std::string read_chunks();

  int socket_ = -1;
  std::string pending_;
};

std::string post_request(std::string_view target, std::string_view body,
                         std::string_view headers = {});

}  // namespace causeway::server::testing
